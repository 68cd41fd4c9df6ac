/** Keys with which the server does a thing once, even where it is asked again because no answer came. */

/** What is looked at, and changes nothing. */
const HARMLESS = /\/(check|validate|preview|sessions)$/;

const waiting = new Map<string, string>();

/** Give a request that makes something the key of the same request before it, where that was never answered. */
export async function addKey(request: Request): Promise<void> {
  if (request.method !== "POST" || HARMLESS.test(new URL(request.url).pathname)) return;
  const asked = await describe(request);
  const key = waiting.get(asked) ?? crypto.randomUUID();
  waiting.set(asked, key);
  request.headers.set("Idempotency-Key", key);
}

/** There is an answer: the same request is another one from now on. */
export function forgetKey(request: Request): void {
  const key = request.headers.get("Idempotency-Key");
  for (const [asked, known] of waiting) if (known === key) waiting.delete(asked);
}

/** A request, without keeping what it says: it may be a secret. */
async function describe(request: Request): Promise<string> {
  const body = await request.clone().arrayBuffer();
  let sum = 0;
  for (const byte of new Uint8Array(body)) sum = (Math.imul(sum, 31) + byte) | 0;
  return `${request.url} ${body.byteLength} ${sum}`;
}
