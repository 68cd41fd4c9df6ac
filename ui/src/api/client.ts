/** The API client, typed with the OpenAPI schema. Failed requests throw the problem that the server reports. */
import createClient from "openapi-fetch";
import { markConnected, markDisconnected } from "./connection";
import { addKey, forgetKey } from "./idempotency";
import { readProblem, Unreachable } from "./problems";
import type { components, paths } from "./schema";
import { markExpired } from "./sessions";

export type Schemas = components["schemas"];

// Otherwise a request over a lost connection would wait for minutes.
const TIMEOUT_MS = 20_000;

export const client = createClient<paths>({
  baseUrl: window.location.origin,
  fetch: (request) => fetch(request, { signal: AbortSignal.timeout(TIMEOUT_MS) }),
});

client.use({
  async onRequest({ request }) {
    await addKey(request);
  },
  async onResponse({ request, response, schemaPath }) {
    markConnected();
    forgetKey(request);
    if (response.ok) return;
    // The sign-in form shows its own 401. Everywhere else a 401 means that the session has expired.
    if (response.status === 401 && schemaPath !== "/api/v1/sessions") markExpired();
    throw await readProblem(response);
  },
  onError() {
    markDisconnected();
    return new Unreachable();
  },
});

/** The body of a response. For failures, the client has already thrown an error. */
export async function unwrap<T>(response: Promise<{ data?: T }>): Promise<T> {
  return (await response).data as T;
}

/** The header that makes a change fail if the record was changed after it was read. */
export function ifMatch(record: { revision: number; id?: string }): { "If-Match": string } {
  // Matches the server's ETags: the end of the ID differs if the object was deleted and created again.
  const suffix = record.id ? `-${record.id.slice(-8)}` : "";
  return { "If-Match": `"${record.revision}${suffix}"` };
}
