/** API requests about the platform settings. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";

export type Settings = Schemas["SettingsView"];
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

const SETTINGS = "/api/v1/settings";

export function loadSettings(): Promise<Settings> {
  return unwrap(client.GET(SETTINGS));
}

export function useSettings(mayRead: boolean) {
  return useQuery({ queryKey: [SETTINGS], queryFn: loadSettings, enabled: mayRead });
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
