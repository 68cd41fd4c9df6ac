/** API requests for the secrets of a project. */
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";
import { useAll } from "../../api/lists";
import { useEffectivePolicy } from "../../api/policies";
import { ancestorsOf, useScopes } from "../../api/scopes";
import { shortName } from "../../format/runs";
import { usesSecret } from "./naming";

export type Secret = Schemas["SecretView"];
export const SECRETS = "/api/v1/projects/{project}/secrets";
const SECRET = "/api/v1/projects/{project}/secrets/{name}";

/** Creates or replaces a secret. With `original`, fails if someone else has replaced the secret in the meantime. */
export function useSetSecret(project: string) {
  return useChange(({ name, value, original }: { name: string; value: string; original?: Secret }) =>
    unwrap(
      client.PUT(SECRET, {
        params: { path: { project, name }, header: original && ifMatch(original) },
        body: { value },
      }),
    ),
  );
}

export function useDeleteSecret(project: string) {
  return useChange((secret: Secret) =>
    unwrap(
      client.DELETE(SECRET, { params: { path: { project, name: secret.name }, header: ifMatch(secret) } }),
    ),
  );
}

export interface SecretUser {
  kind: string;
  name: string;
  scope: string;
}

/** Everything visible to the user that uses a secret: active runs, templates, compute resources and policy defaults. */
export function useSecretUsers(project: string, secret: string) {
  const projectScope = `project/${project}`;
  const scopes = useScopes();
  const runs = useAll("/api/v1/projects/{project}/runs", { active: "true" }, { project });
  const templates = useAll("/api/v1/templates");
  const resources = useAll("/api/v1/compute-resources");
  const policy = useEffectivePolicy(projectScope);
  const queries = [scopes, runs, templates, resources, policy];
  const scopesAbove = [projectScope, ...ancestorsOf(scopes.data ?? [], projectScope)];
  const findUsers = (kind: string, items: { name: string; scope: string; requirements: unknown }[] = []) =>
    items
      .filter((item) => scopesAbove.includes(item.scope) && usesSecret(item.requirements, secret))
      .map(({ name, scope }): SecretUser => ({ kind, name, scope }));
  const users: SecretUser[] = [
    ...(runs.data ?? [])
      .filter((run) => run.uses.includes(`secret/${secret}`))
      .map((run) => ({ kind: "run", name: shortName(run), scope: run.scope })),
    ...findUsers("template", templates.data),
    ...findUsers("compute resource", resources.data),
    ...findUsers(
      "policy defaults",
      policy.data?.defaults.map((defaults) => ({ ...defaults, name: "" })),
    ),
  ];
  return {
    users,
    isPending: queries.some((query) => query.isPending),
    error: queries.find((query) => query.error)?.error ?? null,
  };
}
