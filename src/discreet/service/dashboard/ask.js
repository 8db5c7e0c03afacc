// Questions to the service. The key is in this tab's session storage and in no other place.
const KEY = "discreet-key";

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

/** Returns the response to a GET; raises Refused with the service's own words, or a TypeError if nobody answers. */
export async function ask(path) {
  const response = await fetch(path, {
    headers: { authorization: `Bearer ${key.get()}` },
    cache: "no-store",
    credentials: "omit",
    signal: AbortSignal.timeout(15000),
  });
  if (response.ok) return response;
  let detail = `the service answered ${response.status}`;
  try {
    detail = (await response.json()).detail ?? detail;
  } catch {
    // a proxy in between may answer with a page: the status says enough
  }
  throw new Refused(response.status, detail);
}

export const read = async (path) => (await ask(path)).json();

export const at = (name, rest = "") => `/v1/deployments/${encodeURIComponent(name)}${rest}`;
