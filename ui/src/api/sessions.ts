/** Whether the session has expired, according to the responses of the server. */
import { createStore } from "./stores";

export const expired = createStore(false);

export function markExpired(): void {
  expired.set(true);
}

export function markSignedIn(): void {
  expired.set(false);
}
