/** Whether the session has expired, according to the server's responses. */
import { createStore } from "./stores";

export const expired = createStore(false);

let signIns = 0;

/** The number of sign-ins so far, to tell responses to an earlier session from those to the current one. */
export function countSignIns(): number {
  return signIns;
}

export function markExpired(): void {
  expired.set(true);
}

export function markSignedIn(): void {
  signIns += 1;
  expired.set(false);
}
