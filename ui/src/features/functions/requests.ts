/** API requests for functions. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";
import { splitScope } from "../../api/scopes";
import type { Content } from "./drafts";

export const FUNCTIONS = "/api/v1/functions";
const FUNCTION = "/api/v1/projects/{project}/functions/{name}";

export type Code = Schemas["CodeView"];
type ApiRecord = Schemas["FunctionRecord"];
/** The OpenAPI schema does not describe the content. */
export type FunctionRecord = Omit<ApiRecord, "content"> & { content: Partial<Content> };

export async function loadFunction(project: string, name: string): Promise<FunctionRecord> {
  return unwrap(client.GET(FUNCTION, { params: { path: { project, name } } }));
}

export function useFunction(project: string, name: string) {
  return useQuery({
    queryKey: [FUNCTION, project, name],
    queryFn: () => loadFunction(project, name),
  });
}

/** The files of a function, or null if it has no code. */
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

interface FunctionSave {
  project: string;
  name: string;
  content: Record<string, unknown>;
  /** The loaded revision. If missing, the name must not be in use. */
  original?: FunctionRecord;
}

export function useSaveFunction() {
  return useChange(({ project, name, content, original }: FunctionSave) =>
    unwrap(
      client.PUT(FUNCTION, {
        params: { path: { project, name }, header: original && ifMatch(original) },
        body: content as Schemas["FunctionDefinition"],
      }),
    ),
  );
}

export function useDeleteFunction() {
  return useChange((item: FunctionRecord) =>
    unwrap(
      client.DELETE(FUNCTION, {
        params: { path: { project: splitScope(item.scope).name, name: item.name }, header: ifMatch(item) },
      }),
    ),
  );
}
