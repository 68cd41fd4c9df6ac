/** The organization as a tree, with one place marked. */
import { Box, Group, Text, UnstyledButton } from "@mantine/core";
import { IconBuilding, IconFolder, IconServer, IconWorld } from "@tabler/icons-react";
import { type KeyboardEvent, useState } from "react";
import { childrenOf, type Place } from "../api/places";
import classes from "./ScopeTree.module.css";

const ICONS: Record<string, typeof IconWorld> = {
  platform: IconWorld,
  cluster: IconServer,
  department: IconBuilding,
  project: IconFolder,
};

interface Props {
  places: Place[];
  marked?: string | null;
  /** Left out: the tree is only looked at. */
  onChoose?: (scope: string) => void;
  label?: string;
  /** Which places can be chosen; the others only lead there. */
  mayChoose?: (place: Place) => boolean;
}

export function ScopeTree({
  places,
  marked,
  onChoose,
  label = "Organization",
  mayChoose = () => true,
}: Props) {
  const roots = places.filter((place) => !places.some((other) => other.scope === place.parent));
  const lines = roots.flatMap((root) => flatten(places, root, 1));
  const [focused, setFocused] = useState<string | null>(null);
  // Exactly one place is reached by Tab, even where the one that had the focus is gone.
  const current =
    [focused, marked].find((scope) => lines.some(({ place }) => place.scope === scope)) ??
    lines[0]?.place.scope;
  return (
    <div role="tree" aria-label={label} onKeyDown={moveFocus}>
      {lines.map(({ place, level }) => {
        const Icon = ICONS[place.kind] ?? IconFolder;
        const isMarked = place.scope === marked;
        const isOpen = onChoose && mayChoose(place);
        return (
          <UnstyledButton
            key={place.scope}
            component="div"
            role="treeitem"
            aria-level={level}
            aria-selected={isMarked}
            aria-disabled={onChoose && !isOpen ? true : undefined}
            tabIndex={place.scope === current ? 0 : -1}
            data-marked={isMarked || undefined}
            className={classes.item}
            style={{ paddingLeft: `${level * 1.1}rem` }}
            onFocus={() => setFocused(place.scope)}
            onClick={() => isOpen && onChoose(place.scope)}
            onKeyDown={(event: KeyboardEvent) => {
              if (event.key === "Enter" || event.key === " ") {
                event.preventDefault();
                if (isOpen) onChoose(place.scope);
              }
            }}
          >
            <Group gap={8} wrap="nowrap">
              <Icon size={16} stroke={1.6} aria-hidden />
              <Text size="sm" fw={isMarked ? 600 : 400} truncate>
                {place.kind === "platform" ? "Platform" : place.name}
              </Text>
              <Box component="span" className={classes.kind}>
                {place.kind === "platform" ? "all clusters" : place.kind}
              </Box>
            </Group>
          </UnstyledButton>
        );
      })}
    </div>
  );
}

function flatten(places: Place[], place: Place, level: number): { place: Place; level: number }[] {
  return [
    { place, level },
    ...childrenOf(places, place.scope).flatMap((child) => flatten(places, child, level + 1)),
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
