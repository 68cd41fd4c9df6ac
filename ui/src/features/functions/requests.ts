/** What is asked of the server about functions. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";
import { splitScope } from "../../api/scopes";
import type { Content } from "./drafts";

export const FUNCTIONS = "/api/v1/functions";
const FUNCTION = "/api/v1/projects/{project}/functions/{name}";

export type Code = Schemas["CodeView"];
type Kept = Schemas["FunctionRecord"];
/** The description of the server does not say what is in the content. */
export type FunctionRecord = Omit<Kept, "content"> & { content: Partial<Content> };

export async function loadFunction(project: string, name: string): Promise<FunctionRecord> {
  return unwrap(client.GET(FUNCTION, { params: { path: { project, name } } }));
}

export function useFunction(project: string, name: string) {
  return useQuery({
    queryKey: [FUNCTION, project, name],
    queryFn: () => loadFunction(project, name),
  });
}

/** The files of one; null where it has none. */
export async function loadCode({ scope, name, code }: FunctionRecord): Promise<Code | null> {
  if (!code) return null;
  return unwrap(
    client.GET(`${FUNCTION}/code`, { params: { path: { project: splitScope(scope).name, name } } }),
  );
}

export function useCode(item: FunctionRecord) {
  return useQuery({
    queryKey: [`${FUNCTION}/code`, item.scope, item.name, item.code],
    queryFn: () => loadCode(item),
  });
}

export interface Saved {
  project: string;
  name: string;
  content: Record<string, unknown>;
  /** As it was read; left out, there must be none of that name. */
  read?: FunctionRecord;
}

export function useSaveFunction() {
  return useChange(({ project, name, content, read }: Saved) =>
    unwrap(
      client.PUT(FUNCTION, {
        params: { path: { project, name }, header: read && ifMatch(read) },
        body: content as Schemas["WrittenFunction"],
      }),
    ),
  );
}

export function useDeleteFunction() {
  return useChange((read: FunctionRecord) =>
    unwrap(
      client.DELETE(FUNCTION, {
        params: { path: { project: splitScope(read.scope).name, name: read.name }, header: ifMatch(read) },
      }),
    ),
  );
}
