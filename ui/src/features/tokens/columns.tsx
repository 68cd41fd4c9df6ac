import { Badge, Group } from "@mantine/core";
import { Time } from "../../format/Time";
import type { Column } from "../../table/columns";
import { CREATED_AT, CREATED_BY } from "../../table/stamps";
import type { Token } from "./requests";

const PURPOSES: Record<string, string> = {
  api: "API",
  session: "Browser session",
  local: "Server machine",
};

export function isExpired(token: Token): boolean {
  return token.expires_at !== null && new Date(token.expires_at).getTime() <= Date.now();
}

export const COLUMNS: Column<Token>[] = [
  {
    key: "name",
    title: "Token",
    width: 190,
    kind: "text",
    render: (token) => (
      <Group gap={6} wrap="nowrap">
        {token.name}
        {isExpired(token) && (
          <Badge size="xs" color="gray">
            expired
          </Badge>
        )}
      </Group>
    ),
  },
  { key: "user", title: "User", width: 200, kind: "keyword", render: (token) => token.user },
  {
    key: "purpose",
    title: "Purpose",
    width: 140,
    kind: "keyword",
    options: Object.keys(PURPOSES),
    render: (token) => PURPOSES[token.purpose] ?? token.purpose,
  },
  {
    key: "expires_at",
    title: "Expires",
    width: 125,
    kind: "time",
    render: (token) => (token.expires_at ? <Time at={token.expires_at} /> : "never"),
  },
  CREATED_BY,
  CREATED_AT,
];
