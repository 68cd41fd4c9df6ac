import { Anchor, Badge, Group } from "@mantine/core";
import { Link } from "wouter";
import type { Tree } from "../../forms/trees";
import { policyAddress } from "../../shell/addresses";
import type { Column } from "../../table/columns";
import { CREATED_AT, CREATED_BY, MANAGED_BY, REVISION, UPDATED_AT, UPDATED_BY } from "../../table/stamps";
import type { PolicyRecord } from "./requests";

/** What a policy speaks of: "2 rules", "1 switch", "quota". */
function listTopics(content: Tree): string[] {
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
    ...named("defaults", "defaults"),
  ];
}

export const COLUMNS: Column<PolicyRecord>[] = [
  {
    key: "scope",
    title: "Scope",
    width: 220,
    kind: "word",
    render: (item) => (
      <Anchor component={Link} href={policyAddress(item.scope)} fz="inherit" fw={550}>
        {item.scope}
      </Anchor>
    ),
  },
  {
    key: "content",
    title: "Says",
    width: 420,
    isUnsorted: true,
    render: (item) => {
      const topics = listTopics(item.content);
      if (topics.length === 0) return "nothing";
      return (
        <Group gap={6} wrap="nowrap">
          {topics.map((topic) => (
            <Badge key={topic} size="sm" variant="default">
              {topic}
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
