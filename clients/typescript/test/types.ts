// What is shipped has the types that an app sees.
import { type Client, connect, type Encoder, fromDocument, InvalidInput, type Pin, Refused, toWire } from "../dist/index.js";

const pin: Pin = { states: 2, actions: 2, horizon: 3, epsilon: 1 };
const client: Client = connect({ server: "https://example.org", pin, storage: localStorage });
const encoder: Encoder = fromDocument({}, pin);
export const text: string = toWire(encoder.absent());
export const wrong: InvalidInput = new Refused("");
export async function play(): Promise<void> {
  const episode = await client.start("steps", "pseudonym", AbortSignal.timeout(1000));
  const action: number | null = await episode.step(0);
  if (action !== null) await episode.step(1, 0.5);
  await episode.report();
  // @ts-expect-error: a pin needs the app's own sizes
  connect({ server: "https://example.org", pin: { epsilon: 1 } });
}
