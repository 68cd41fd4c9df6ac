/** Tracks whether the server is responding. While it is not, its health endpoint is polled. */
import { createStore } from "./stores";

const INTERVAL_MS = 1500;

export const connected = createStore(true);
let timer: ReturnType<typeof setTimeout> | undefined;

export function markConnected(): void {
  connected.set(true);
}

export function markDisconnected(): void {
  connected.set(false);
  // Many requests can fail at once, but one timer is enough.
  if (timer === undefined) timer = setTimeout(checkHealth, INTERVAL_MS);
}

async function checkHealth(): Promise<void> {
  try {
    // Any response means that the server is reachable, whatever its status.
    await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(5000) });
    timer = undefined;
    markConnected();
  } catch {
    timer = setTimeout(checkHealth, INTERVAL_MS);
  }
}
