/** Idempotency keys: a request that is repeated because its response was lost takes effect once. */

/** POST requests that change nothing. */
const READ_ONLY = /\/(check|validate|preview|sessions)$/;

/** Keys of requests that have had no response, by fingerprint. */
const keys = new Map<string, string>();

/** Adds an idempotency key. An identical request that has had no response yet gets the same key. */
export async function addKey(request: Request): Promise<void> {
  if (request.method !== "POST" || READ_ONLY.test(new URL(request.url).pathname)) return;
  const fingerprint = await computeFingerprint(request);
  const key = keys.get(fingerprint) ?? crypto.randomUUID();
  keys.set(fingerprint, key);
  request.headers.set("Idempotency-Key", key);
}

/** Called after a response: an identical request gets a new key from now on. */
export function forgetKey(request: Request): void {
  const key = request.headers.get("Idempotency-Key");
  for (const [fingerprint, known] of keys) if (known === key) keys.delete(fingerprint);
}

/** Identifies a request by URL and checksum, because its body may contain a secret. */
async function computeFingerprint(request: Request): Promise<string> {
  const body = await request.clone().arrayBuffer();
  // A weak checksum is enough: the server rejects a key that was used with a different body.
  let sum = 0;
  for (const byte of new Uint8Array(body)) sum = (Math.imul(sum, 31) + byte) | 0;
  return `${request.url} ${body.byteLength} ${sum}`;
}
