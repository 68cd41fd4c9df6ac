/** The API client, typed with the OpenAPI schema. Failed requests throw the problem that the server reports. */
import createClient from "openapi-fetch";
import { markConnected, markDisconnected } from "./connection";
import { addKey, forgetKey } from "./idempotency";
import { readProblem, Unreachable } from "./problems";
import type { components, paths } from "./schema";
import { countSignIns, markExpired } from "./sessions";

export type Schemas = components["schemas"];

// Without a timeout, a request over a lost connection would hang for minutes.
const TIMEOUT_MS = 20_000;

export const client = createClient<paths>({
  baseUrl: window.location.origin,
  fetch: (request) => fetch(request, { signal: AbortSignal.timeout(TIMEOUT_MS) }),
});

/** The number of sign-ins when each request was sent. */
const signInsOf = new WeakMap<Request, number>();

client.use({
  async onRequest({ request }) {
    signInsOf.set(request, countSignIns());
    await addKey(request);
  },
  async onResponse({ request, response, schemaPath }) {
    markConnected();
    forgetKey(request);
    if (response.ok) return;
    // The sign-in form handles a 401 itself. Everywhere else, a 401 means that the session has expired, unless the
    // user has signed in since the request was sent: the dialog would open again over the new session.
    const isCurrent = signInsOf.get(request) === countSignIns();
    if (response.status === 401 && schemaPath !== "/api/v1/sessions" && isCurrent) markExpired();
    throw await readProblem(response);
  },
  onError() {
    markDisconnected();
    return new Unreachable();
  },
});

/** Returns the response body. If the request failed, the client has already thrown an error. */
export async function unwrap<T>(response: Promise<{ data?: T }>): Promise<T> {
  return (await response).data as T;
}

/** The header that makes a request fail if the record has changed since it was read. */
export function ifMatch(record: { revision: number; id?: string }): { "If-Match": string } {
  // Matches the server's ETags: the ID suffix differs if the object was deleted and re-created.
  const suffix = record.id ? `-${record.id.slice(-8)}` : "";
  return { "If-Match": `"${record.revision}${suffix}"` };
}
