/** API requests about the platform settings. */
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";
import { SETTINGS, type Settings } from "../../api/settings";

/** The server's startup configuration. */
export interface Server {
  version: string;
  url: string;
  auth: string;
  database: string;
  oidc_issuer: string | null;
  /** Only for platform administrators. */
  folder?: { path: string; applied_at: string | null; problem: string | null } | null;
}

/** Saves the defaults. Fails if they have changed since `base`, which has revision 0 if nothing was ever saved. */
export function useSaveDefaults() {
  return useChange(({ base, defaults }: { base: Settings; defaults: Record<string, unknown> }) =>
    unwrap(
      client.PUT(SETTINGS, {
        params: { header: ifMatch(base) },
        body: { defaults } as Schemas["SettingsRequest"],
      }),
    ),
  );
}
