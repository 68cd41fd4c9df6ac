import { Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Settings } from "../../api/settings";
import { Facts } from "../../format/Facts";
import { Time } from "../../format/Time";
import type { Server } from "./requests";

const DATABASES: Record<string, string> = { sqlite: "SQLite", postgresql: "PostgreSQL" };
const AUTH: Record<string, string> = {
  local: "This machine only",
  tokens: "Token",
  oidc: "Identity provider or token",
};

/** The server's startup configuration, read-only. */
export function ServerFacts({ settings }: { settings: Settings }) {
  const server = settings.server as unknown as Server;
  const facts: [string, ReactNode][] = [
    ["Version", server.version],
    ["URL", server.url],
    ["Access", AUTH[server.auth] ?? server.auth],
    ["Database", DATABASES[server.database] ?? server.database],
    ["Identity provider", server.oidc_issuer ?? "none"],
  ];
  if (server.folder !== undefined) facts.push(["Watched folder", <Folder key="folder" of={server.folder} />]);
  return <Facts facts={facts} />;
}

function Folder({ of: folder }: { of: Server["folder"] }) {
  if (!folder) return "none";
  return (
    <>
      {folder.path}
      {folder.applied_at && (
        <Text size="sm" c="dimmed" component="div">
          applied <Time at={folder.applied_at} />
        </Text>
      )}
      {folder.problem && (
        <Text size="sm" c="var(--mantine-color-error)">
          {folder.problem}
        </Text>
      )}
    </>
  );
}
