/** Idempotency keys: a request that is repeated because its response was lost takes effect only once. */

/** POST requests that are safe to repeat without a key. */
const READ_ONLY = /\/(check|validate|preview|sessions)$/;

/** Keys of requests that have not received a response yet, by fingerprint. */
const keys = new Map<string, string>();

/** Adds an idempotency key. Reuses the key of an identical request that has not received a response yet. */
export async function addKey(request: Request): Promise<void> {
  if (request.method !== "POST" || READ_ONLY.test(new URL(request.url).pathname)) return;
  const fingerprint = await computeFingerprint(request);
  const key = keys.get(fingerprint) ?? crypto.randomUUID();
  keys.set(fingerprint, key);
  request.headers.set("Idempotency-Key", key);
}

/** Discards the key after a response, so that the next identical request gets a new one. */
export function forgetKey(request: Request): void {
  const key = request.headers.get("Idempotency-Key");
  for (const [fingerprint, known] of keys) if (known === key) keys.delete(fingerprint);
}

/** Identifies a request by URL and checksum. Does not store the body, because it may contain a secret. */
async function computeFingerprint(request: Request): Promise<string> {
  const body = await request.clone().arrayBuffer();
  // A weak checksum is enough: the server rejects a key that was used with a different body.
  let sum = 0;
  for (const byte of new Uint8Array(body)) sum = (Math.imul(sum, 31) + byte) | 0;
  return `${request.url} ${body.byteLength} ${sum}`;
}
