/** What is asked of the server about the secrets of a project. */
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";
import { useAll } from "../../api/lists";
import { useEffectivePolicy } from "../../api/policies";
import { ancestorsOf, useScopes } from "../../api/scopes";
import { shortName } from "../../format/runs";
import { namesSecret } from "./naming";

export type Secret = Schemas["SecretName"];
export const SECRETS = "/api/v1/projects/{project}/secrets";
const SECRET = "/api/v1/projects/{project}/secrets/{name}";

/** One that was read is replaced only as it was read. */
export function useSetSecret(project: string) {
  return useChange(({ name, value, read }: { name: string; value: string; read?: Secret }) =>
    unwrap(
      client.PUT(SECRET, {
        params: { path: { project, name }, header: read && ifMatch(read) },
        body: { value },
      }),
    ),
  );
}

export function useDeleteSecret(project: string) {
  return useChange((read: Secret) =>
    unwrap(client.DELETE(SECRET, { params: { path: { project, name: read.name }, header: ifMatch(read) } })),
  );
}

export interface User {
  kind: string;
  name: string;
  scope: string;
}

/** What names a secret, of what one sees: unfinished runs, templates, compute resources, defaults of policies. */
export function useUsers(project: string, secret: string) {
  const here = `project/${project}`;
  const scopes = useScopes();
  const runs = useAll("/api/v1/projects/{project}/runs", { live: "true" }, { project });
  const templates = useAll("/api/v1/templates");
  const resources = useAll("/api/v1/compute-resources");
  const policy = useEffectivePolicy(here);
  const asked = [scopes, runs, templates, resources, policy];
  const reach = [here, ...ancestorsOf(scopes.data ?? [], here)];
  const saying = (kind: string, items: { name: string; scope: string; requirements: unknown }[] = []) =>
    items
      .filter((item) => reach.includes(item.scope) && namesSecret(item.requirements, secret))
      .map(({ name, scope }): User => ({ kind, name, scope }));
  const users: User[] = [
    ...(runs.data ?? [])
      .filter((run) => run.uses.includes(`secret/${secret}`))
      .map((run) => ({ kind: "run", name: shortName(run), scope: run.scope })),
    ...saying("template", templates.data),
    ...saying("compute resource", resources.data),
    ...saying(
      "defaults of the policy",
      policy.data?.defaults.map((said) => ({ ...said, name: "" })),
    ),
  ];
  return {
    users,
    isPending: asked.some((one) => one.isPending),
    error: asked.find((one) => one.error)?.error ?? null,
  };
}
