import { Anchor, Badge, Group } from "@mantine/core";
import { Link } from "wouter";
import type { Tree } from "../../forms/trees";
import { policyAddress } from "../../shell/addresses";
import type { Column } from "../../table/columns";
import { CREATED_AT, CREATED_BY, MANAGED_BY, REVISION, UPDATED_AT, UPDATED_BY } from "../../table/stamps";
import type { PolicyRecord } from "./requests";

/** Contents of a policy, for example "2 rules", "1 switch" and "quota". */
function listContents(content: Tree): string[] {
  const count = (part: string, noun: string, nouns: string) => {
    const number = Object.keys(content[part] ?? {}).length;
    return number > 0 ? [`${number} ${number === 1 ? noun : nouns}`] : [];
  };
  const named = (part: string, name: string) => (Object.keys(content[part] ?? {}).length > 0 ? [name] : []);
  return [
    ...count("rules", "rule", "rules"),
    ...count("switches", "switch", "switches"),
    ...named("limit_factor", "limit factors"),
    ...named("quota", "quota"),
    ...named("queue", "queue"),
    ...named("defaults", "defaults"),
  ];
}

export const COLUMNS: Column<PolicyRecord>[] = [
  {
    key: "scope",
    title: "Scope",
    width: 220,
    kind: "keyword",
    render: (item) => (
      <Anchor component={Link} href={policyAddress(item.scope)} fz="inherit" fw={550}>
        {item.scope}
      </Anchor>
    ),
  },
  {
    key: "content",
    title: "Contents",
    width: 420,
    isUnsorted: true,
    render: (item) => {
      const contents = listContents(item.content);
      if (contents.length === 0) return "Empty";
      return (
        <Group gap={6} wrap="nowrap">
          {contents.map((part) => (
            <Badge key={part} size="sm" variant="default">
              {part}
            </Badge>
          ))}
        </Group>
      );
    },
  },
  UPDATED_BY,
  UPDATED_AT,
  REVISION,
  MANAGED_BY,
  { ...CREATED_BY, isExtra: true },
  { ...CREATED_AT, isExtra: true },
];
