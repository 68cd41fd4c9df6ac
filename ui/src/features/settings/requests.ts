/** What is asked of the server about the settings of the platform. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";

export type Settings = Schemas["SettingsView"];
/** What the server was started with. */
export interface Server {
  version: string;
  url: string;
  auth: string;
  database: string;
  oidc_issuer: string | null;
  /** Only for administrators of the platform. */
  folder?: { path: string; applied_at: string | null; problem: string | null } | null;
}

const SETTINGS = "/api/v1/settings";

export function loadSettings(): Promise<Settings> {
  return unwrap(client.GET(SETTINGS));
}

export function useSettings(mayRead: boolean) {
  return useQuery({ queryKey: [SETTINGS], queryFn: loadSettings, enabled: mayRead });
}

/** Saves the defaults, only as they were read; where nothing was ever saved, that is revision 0. */
export function useSaveDefaults() {
  return useChange(({ read, defaults }: { read: Settings; defaults: Record<string, unknown> }) =>
    unwrap(
      client.PUT(SETTINGS, {
        params: { header: ifMatch(read) },
        body: { defaults } as Schemas["PlatformSettings"],
      }),
    ),
  );
}
