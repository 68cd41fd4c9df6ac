/** The organization tree, with one scope highlighted. */
import { Box, Group, Text, UnstyledButton } from "@mantine/core";
import { IconBuilding, IconFolder, IconServer, IconWorld } from "@tabler/icons-react";
import { type KeyboardEvent, useState } from "react";
import { childrenOf, type Scope } from "../api/scopes";
import classes from "./ScopeTree.module.css";

const ICONS: Record<string, typeof IconWorld> = {
  platform: IconWorld,
  cluster: IconServer,
  department: IconBuilding,
  project: IconFolder,
};

interface Props {
  scopes: Scope[];
  marked?: string | null;
  /** Omit for a read-only tree. */
  onChoose?: (scope: string) => void;
  label?: string;
  /** Whether a scope can be selected. Other scopes are shown only for context. */
  mayChoose?: (record: Scope) => boolean;
}

export function ScopeTree({
  scopes,
  marked,
  onChoose,
  label = "Organization",
  mayChoose = () => true,
}: Props) {
  const roots = scopes.filter((record) => !scopes.some((other) => other.scope === record.parent));
  const lines = roots.flatMap((root) => flatten(scopes, root, 1));
  const [focused, setFocused] = useState<string | null>(null);
  // The Tab key reaches exactly one item, even if the focused item was removed.
  const current =
    [focused, marked].find((scope) => lines.some(({ record }) => record.scope === scope)) ??
    lines[0]?.record.scope;
  return (
    <div role="tree" aria-label={label} onKeyDown={moveFocus}>
      {lines.map(({ record, level }) => {
        const Icon = ICONS[record.kind] ?? IconFolder;
        const isMarked = record.scope === marked;
        const isOpen = onChoose && mayChoose(record);
        return (
          <UnstyledButton
            key={record.scope}
            component="div"
            role="treeitem"
            aria-level={level}
            aria-selected={isMarked}
            aria-disabled={onChoose && !isOpen ? true : undefined}
            tabIndex={record.scope === current ? 0 : -1}
            data-marked={isMarked || undefined}
            className={classes.item}
            style={{ paddingLeft: `${level * 1.1}rem` }}
            onFocus={() => setFocused(record.scope)}
            onClick={() => isOpen && onChoose(record.scope)}
            onKeyDown={(event: KeyboardEvent) => {
              if (event.key === "Enter" || event.key === " ") {
                event.preventDefault();
                if (isOpen) onChoose(record.scope);
              }
            }}
          >
            <Group gap={8} wrap="nowrap">
              <Icon size={16} stroke={1.6} aria-hidden />
              <Text size="sm" fw={isMarked ? 600 : 400} truncate>
                {record.kind === "platform" ? "Platform" : record.name}
              </Text>
              <Box component="span" className={classes.kind}>
                {record.kind === "platform" ? "all clusters" : record.kind}
              </Box>
            </Group>
          </UnstyledButton>
        );
      })}
    </div>
  );
}

function flatten(scopes: Scope[], record: Scope, level: number): { record: Scope; level: number }[] {
  return [
    { record, level },
    ...childrenOf(scopes, record.scope).flatMap((child) => flatten(scopes, child, level + 1)),
  ];
}

function moveFocus(event: KeyboardEvent<HTMLDivElement>): void {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  if (!step) return;
  event.preventDefault();
  const item = (event.target as Element).closest('[role="treeitem"]');
  const next = item?.[step as "nextElementSibling"];
  if (next instanceof HTMLElement) next.focus();
}
