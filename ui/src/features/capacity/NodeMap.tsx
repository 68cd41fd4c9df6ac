/** A cell for each node, colored by how much of it is in use. The arrow keys go from cell to cell, Enter chooses. */
import { Text } from "@mantine/core";
import { type MouseEvent, memo, type SyntheticEvent, useMemo, useState } from "react";
import type { ClusterNode } from "../../api/capacities";
import { round, showBytes } from "../../format/amounts";
import { moveFocus } from "./moving";
import classes from "./NodeMap.module.css";
import { type By, measure, shareOf, showOf, showShort, stepOf, tellNode } from "./shares";

/** More cells than these are small, and without words in them. */
const MANY = 300;

interface Props {
  nodes: ClusterNode[];
  by: By;
  chosen: string | null;
  onChoose: (node: string) => void;
}

export function NodeMap({ nodes, by, chosen, onChoose }: Props) {
  const groups = useMemo(() => sortOut(nodes, by), [nodes, by]);
  const [pointed, setPointed] = useState<string | null>(null);
  const [focused, setFocused] = useState<string | null>(null);
  const known = useMemo(() => new Map(nodes.map((node) => [node.name, node])), [nodes]);
  if (nodes.length === 0) return null;
  // Exactly one cell is reached by Tab, even where the one that had the focus is gone.
  const current =
    [focused, chosen].find((name) => name !== null && known.has(name)) ?? groups[0]!.nodes[0]!.name;
  const told = known.get(pointed ?? focused ?? chosen ?? "");
  return (
    <>
      <div
        role="listbox"
        aria-label="Nodes"
        tabIndex={-1}
        className={classes.map}
        data-small={nodes.length > MANY || undefined}
        onKeyDown={moveFocus}
        onClick={(event: MouseEvent) => choose(event, onChoose)}
        onFocus={(event) => setFocused(nameOf(event))}
        onBlur={() => setFocused(null)}
        onMouseOver={(event) => setPointed(nameOf(event))}
        onMouseLeave={() => setPointed(null)}
      >
        {groups.map((group) => (
          <Group
            key={group.title}
            group={group}
            by={by}
            chosen={group.names.has(chosen ?? "") ? chosen : null}
            current={group.names.has(current) ? current : null}
          />
        ))}
      </div>
      {/* A screen reader is told the same by the names of the cells. */}
      <Text size="sm" className="number" aria-hidden mih="1.4em">
        {told ? (
          tellNode(told, by)
        ) : (
          <Text span size="sm" c="dimmed">
            Point at a node to see how much of it is in use; choose it to see who holds what.
          </Text>
        )}
      </Text>
    </>
  );
}

interface NodeGroup {
  title: string;
  nodes: ClusterNode[];
  names: Set<string>;
}

interface GroupProps {
  group: NodeGroup;
  by: By;
  /** Those of this group alone: the others need not be drawn anew. */
  chosen: string | null;
  current: string | null;
}

const Group = memo(function Group({ group, by, chosen, current }: GroupProps) {
  const told = useMemo(() => tellGroup(group.nodes, by), [group, by]);
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is no group of options
    <div role="group" aria-label={group.title}>
      <Text size="xs" mb={4} className="number">
        <Text span size="xs" fw={600}>
          {group.title}
        </Text>{" "}
        <Text span size="xs" c="dimmed">
          {told}
        </Text>
      </Text>
      <div className={classes.cells}>
        {group.nodes.map((node) => (
          <Cell
            key={node.name}
            node={node}
            by={by}
            isChosen={node.name === chosen}
            isCurrent={node.name === current}
          />
        ))}
      </div>
    </div>
  );
});

interface CellProps {
  node: ClusterNode;
  by: By;
  isChosen: boolean;
  isCurrent: boolean;
}

/** There may be thousands: only those are drawn anew that have changed. */
const Cell = memo(function Cell({ node, by, isChosen, isCurrent }: CellProps) {
  const found = measure([node], by);
  const share = shareOf(found);
  return (
    <button
      type="button"
      role="option"
      className={classes.cell}
      data-name={node.name}
      data-step={share === null ? undefined : stepOf(share)}
      data-none={share === null || undefined}
      data-unavailable={node.unavailable || undefined}
      aria-selected={isChosen}
      aria-label={tellNode(node, by, found)}
      tabIndex={isCurrent ? 0 : -1}
    >
      <span>{showShort(found, by)}</span>
    </button>
  );
});

/** The nodes by group and by type of GPU; those that have none of what is looked at, and those of no group, last. */
function sortOut(nodes: ClusterNode[], by: By): NodeGroup[] {
  const found = new Map<string, ClusterNode[]>();
  for (const node of nodes) {
    const title = [node.group, node.gpu_type].filter(Boolean).join(" · ");
    const group = found.get(title);
    if (group) group.push(node);
    else found.set(title, [node]);
  }
  const other = found.size === 1 ? "All nodes" : "Other nodes";
  return [...found]
    .map(([title, group]) => ({
      title,
      nodes: group,
      isLast: measure(group, by).has === 0 ? 2 : title ? 0 : 1,
    }))
    .sort((one, next) => one.isLast - next.isLast || one.title.localeCompare(next.title))
    .map(({ title, nodes: members }) => ({
      title: title || other,
      nodes: members,
      names: new Set(members.map((node) => node.name)),
    }));
}

/** "12 nodes, 3 of 96 GPUs free, at most 2 on one node". */
function tellGroup(nodes: ClusterNode[], by: By): string {
  const { has, free } = measure(nodes, by);
  const count = `${nodes.length.toLocaleString("en")} ${nodes.length === 1 ? "node" : "nodes"}`;
  const left = has > 0 ? `, ${showOf(free, has, by)} free` : "";
  return `${count}${left}${free > 0 && nodes.length > 1 ? tellMost(nodes, by) : ""}`;
}

/** A pod is on one node: what is free in all of them may be too little on each. */
function tellMost(nodes: ClusterNode[], by: By): string {
  const open = nodes.filter((node) => !node.unavailable).map((node) => measure([node], by).free);
  const most = open.reduce((largest, free) => Math.max(largest, free), 0);
  return `, at most ${by === "memory" ? showBytes(most) : round(most)} on one node`;
}

function nameOf(event: SyntheticEvent): string | null {
  return (event.target as Element).closest<HTMLElement>("[data-name]")?.dataset.name ?? null;
}

function choose(event: MouseEvent, onChoose: (node: string) => void): void {
  const name = nameOf(event);
  if (name !== null) onChoose(name);
}
