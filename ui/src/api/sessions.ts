/** Whether somebody is signed in, as far as the answers of the server say. */
import { createStore } from "./stores";

export const expired = createStore(false);

export function noteExpiry(): void {
  expired.set(true);
}

export function noteSignIn(): void {
  expired.set(false);
}
