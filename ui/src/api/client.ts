/** The one way to the server: typed by its own description, failing with its own words. */
import createClient from "openapi-fetch";
import { noteAnswer, noteSilence } from "./connection";
import { addKey, forgetKey } from "./idempotency";
import { readProblem, Unreachable } from "./problems";
import type { components, paths } from "./schema";
import { noteExpiry } from "./sessions";

export type Schemas = components["schemas"];

/** After so long a server that says nothing is one that is gone. */
const PATIENCE_MS = 20_000;

export const client = createClient<paths>({
  baseUrl: window.location.origin,
  fetch: (request) => fetch(request, { signal: AbortSignal.timeout(PATIENCE_MS) }),
});

client.use({
  async onRequest({ request }) {
    await addKey(request);
  },
  async onResponse({ request, response, schemaPath }) {
    noteAnswer();
    forgetKey(request);
    if (response.ok) return;
    // Whoever tries to sign in is told there; everywhere else a 401 means that the session is over.
    if (response.status === 401 && schemaPath !== "/api/v1/sessions") noteExpiry();
    throw await readProblem(response);
  },
  onError() {
    noteSilence();
    return new Unreachable();
  },
});

/** What an answer says. Failures were thrown before. */
export async function unwrap<T>(asked: Promise<{ data?: T }>): Promise<T> {
  return (await asked).data as T;
}

/** The condition of a change: that the record is still as it was read. */
export function ifMatch(record: { revision: number; id?: string }): { "If-Match": string } {
  const tail = record.id ? `-${record.id.slice(-8)}` : "";
  return { "If-Match": `"${record.revision}${tail}"` };
}
