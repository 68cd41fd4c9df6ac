/** Whether the session has expired, according to the server's responses. */
import { createStore } from "./stores";

export const expired = createStore(false);

export function markExpired(): void {
  expired.set(true);
}

export function markSignedIn(): void {
  expired.set(false);
}
