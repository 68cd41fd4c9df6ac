/** Whether the server answers; while it does not, we ask until it does. */
import { createStore } from "./stores";

const EVERY_MS = 1500;

export const connected = createStore(true);
let asking: ReturnType<typeof setTimeout> | undefined;

export function noteAnswer(): void {
  connected.set(true);
}

export function noteSilence(): void {
  connected.set(false);
  if (asking === undefined) asking = setTimeout(ask, EVERY_MS);
}

async function ask(): Promise<void> {
  try {
    await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(5000) });
    asking = undefined;
    noteAnswer();
  } catch {
    asking = setTimeout(ask, EVERY_MS);
  }
}
