/** A heat map with a cell for each node, colored by usage. Arrow keys move between cells, and Enter selects a cell. */
import { Text } from "@mantine/core";
import { type MouseEvent, memo, type SyntheticEvent, useMemo, useState } from "react";
import type { ClusterNode } from "../../api/capacities";
import { round, showBytes } from "../../format/amounts";
import { moveFocus } from "./keyboard";
import classes from "./NodeMap.module.css";
import { type By, describeNode, measure, shareOf, showCell, showOf, stepOf } from "./shares";

/** Maps with more nodes than this have small cells without text. */
const SMALL_CELLS_ABOVE = 300;

interface Props {
  nodes: ClusterNode[];
  by: By;
  chosen: string | null;
  onChoose: (node: string) => void;
}

export function NodeMap({ nodes, by, chosen, onChoose }: Props) {
  const groups = useMemo(() => groupNodes(nodes, by), [nodes, by]);
  const [hovered, setHovered] = useState<string | null>(null);
  const [focused, setFocused] = useState<string | null>(null);
  const nodesByName = useMemo(() => new Map(nodes.map((node) => [node.name, node])), [nodes]);
  if (nodes.length === 0) return null;
  // Tab reaches exactly one cell, even if the focused cell was removed.
  const current =
    [focused, chosen].find((name) => name !== null && nodesByName.has(name)) ?? groups[0]!.nodes[0]!.name;
  const described = nodesByName.get(hovered ?? focused ?? chosen ?? "");
  return (
    <>
      <div
        role="listbox"
        aria-label="Nodes"
        tabIndex={-1}
        className={classes.map}
        data-small={nodes.length > SMALL_CELLS_ABOVE || undefined}
        onKeyDown={moveFocus}
        onClick={(event: MouseEvent) => choose(event, onChoose)}
        onFocus={(event) => setFocused(nameOf(event))}
        onBlur={() => setFocused(null)}
        onMouseOver={(event) => setHovered(nameOf(event))}
        onMouseLeave={() => setHovered(null)}
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
      {/* Screen readers get the same text from the cell labels. */}
      <Text size="sm" className="number" aria-hidden mih="1.4em">
        {described ? (
          describeNode(described, by)
        ) : (
          <Text span size="sm" c="dimmed">
            Hover for usage, click for details.
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
  /** Null if the selected node is in another group, so that this group is not re-rendered. */
  chosen: string | null;
  current: string | null;
}

const Group = memo(function Group({ group, by, chosen, current }: GroupProps) {
  const description = useMemo(() => describeGroup(group.nodes, by), [group, by]);
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be a group of options
    <div role="group" aria-label={group.title}>
      <Text size="xs" mb={4} className="number">
        <Text span size="xs" fw={600}>
          {group.title}
        </Text>{" "}
        <Text span size="xs" c="dimmed">
          {description}
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

/** Memoized, because there may be thousands of cells. */
const Cell = memo(function Cell({ node, by, isChosen, isCurrent }: CellProps) {
  const usage = measure([node], by);
  const share = shareOf(usage);
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
      aria-label={describeNode(node, by, usage)}
      tabIndex={isCurrent ? 0 : -1}
    >
      <span>{showCell(usage, by)}</span>
    </button>
  );
});

/** Groups nodes by node group and GPU type. Nodes with neither come next, and nodes without the resource last. */
function groupNodes(nodes: ClusterNode[], by: By): NodeGroup[] {
  const groups = new Map<string, ClusterNode[]>();
  for (const node of nodes) {
    const title = [node.group, node.gpu_type].filter(Boolean).join(" · ");
    const group = groups.get(title);
    if (group) group.push(node);
    else groups.set(title, [node]);
  }
  const other = groups.size === 1 ? "All nodes" : "Other nodes";
  return [...groups]
    .map(([title, group]) => ({
      title,
      nodes: group,
      rank: measure(group, by).total === 0 ? 2 : title ? 0 : 1,
    }))
    .sort((one, next) => one.rank - next.rank || one.title.localeCompare(next.title))
    .map(({ title, nodes: members }) => ({
      title: title || other,
      nodes: members,
      names: new Set(members.map((node) => node.name)),
    }));
}

/** "12 nodes, 3 of 96 GPUs free, at most 2 on one node". */
function describeGroup(nodes: ClusterNode[], by: By): string {
  const { total, free } = measure(nodes, by);
  const count = `${nodes.length.toLocaleString("en")} ${nodes.length === 1 ? "node" : "nodes"}`;
  const left = total > 0 ? `, ${showOf(free, total, by)} free` : "";
  return `${count}${left}${free > 0 && nodes.length > 1 ? describeLargest(nodes, by) : ""}`;
}

/** A pod must fit on a single node. A group may have enough free in total, but not enough on any one node. */
function describeLargest(nodes: ClusterNode[], by: By): string {
  const available = nodes.filter((node) => !node.unavailable).map((node) => measure([node], by).free);
  const most = available.reduce((largest, free) => Math.max(largest, free), 0);
  return `, at most ${by === "memory" ? showBytes(most) : round(most)} on one node`;
}

function nameOf(event: SyntheticEvent): string | null {
  return (event.target as Element).closest<HTMLElement>("[data-name]")?.dataset.name ?? null;
}

function choose(event: MouseEvent, onChoose: (node: string) => void): void {
  const name = nameOf(event);
  if (name !== null) onChoose(name);
}
