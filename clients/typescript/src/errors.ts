/**
 * The exceptions of this client, named as in Python:
 *
 *     DiscreetError
 *     ├── InvalidInput              a parameter or an encoder is not what it must be
 *     │   ├── Refused               an encoder or a ticket is weaker than what the owner pinned
 *     │   └── InvalidPersonalData   a person's data is out of bounds; names the field and the bound only
 *     └── LiveError                 the service did not do what was asked; carries `problem`
 *         ├── Closed                the report comes too late: it is never moved to a later batch
 *         ├── InvalidToken          the token or the key is not accepted
 *         └── Unavailable           no answer, or one that says "repeat"; to do the same again is safe
 *
 * Messages hold our own words, and numbers that are public: never a value, an address, a token or a server's text.
 */
export class DiscreetError extends Error {
  override name = "DiscreetError";
}

export class InvalidInput extends DiscreetError {
  override name = "InvalidInput";
}

export class Refused extends InvalidInput {
  override name = "Refused";
}

export class InvalidPersonalData extends InvalidInput {
  override name = "InvalidPersonalData";
}

/** What `application/problem+json` says: a server's words, for a developer and never for a log. */
export interface Problem {
  readonly status: number;
  readonly type?: string;
  readonly title?: string;
  readonly detail?: string;
}

export class LiveError extends DiscreetError {
  override name = "LiveError";

  constructor(
    message: string,
    readonly problem?: Problem,
  ) {
    super(message);
  }
}

export class Closed extends LiveError {
  override name = "Closed";
}

export class InvalidToken extends LiveError {
  override name = "InvalidToken";
}

export class Unavailable extends LiveError {
  override name = "Unavailable";
}
