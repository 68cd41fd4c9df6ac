/** The platform settings. */
import { useQuery } from "@tanstack/react-query";
import { client, type Schemas, unwrap } from "./client";

export type Settings = Schemas["SettingsView"];

export const SETTINGS = "/api/v1/settings";

export function loadSettings(): Promise<Settings> {
  return unwrap(client.GET(SETTINGS));
}

/** Any role in any scope allows reading the settings. */
export function useSettings(mayRead: boolean) {
  return useQuery({ queryKey: [SETTINGS], queryFn: loadSettings, enabled: mayRead });
}
