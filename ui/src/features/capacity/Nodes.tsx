/** The nodes of a cluster as a heat map, next to the details of the selected node. */
import { Group, SegmentedControl, Text, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useEffect, useMemo, useRef, useState } from "react";
import type { ClusterNode } from "../../api/capacities";
import type { Run } from "../../api/runs";
import { Card, Columns } from "../../shell/Page";
import classes from "./Capacity.module.css";
import type { Choices } from "./choices";
import { Legend } from "./Legend";
import { NodeMap } from "./NodeMap";
import { NodePanel } from "./NodePanel";
import { type By, measure, VIEWS } from "./shares";

/** Only clusters with more nodes than this have a search field. */
const SEARCH_THRESHOLD = 30;
/** The panel is scrolled into view if fewer pixels than this are visible. */
const MIN_VISIBLE_PX = 160;

interface Props {
  nodes: ClusterNode[];
  runs: Record<string, Run>;
  choices: Choices;
}

export function Nodes({ nodes, runs, choices }: Props) {
  const [search, setSearch] = useState("");
  const by = choices.by ?? defaultView(nodes);
  const shown = useMemo(() => nodes.filter((node) => node.name.includes(search.trim())), [nodes, search]);
  // If the cluster has only one node, it is always selected.
  const name = choices.node ?? (nodes.length === 1 ? nodes[0]!.name : null);
  const panel = useScrollIntoView(choices.node);
  return (
    <Columns
      side={
        <div ref={panel} className={classes.panel}>
          <NodePanel
            node={nodes.find((node) => node.name === name)}
            name={name}
            runs={runs}
            onClose={choices.node === null ? undefined : () => choices.choose({ node: null })}
          />
        </div>
      }
    >
      <Card
        title="Nodes"
        about="Requested share of each node."
        actions={
          <Group gap="xs">
            {nodes.length > SEARCH_THRESHOLD && (
              <TextInput
                size="xs"
                w={160}
                aria-label="Search nodes"
                placeholder="Search nodes"
                leftSection={<IconSearch size={14} />}
                value={search}
                onChange={(event) => setSearch(event.currentTarget.value)}
              />
            )}
            <SegmentedControl
              size="xs"
              aria-label="Resource"
              data={VIEWS}
              value={by}
              onChange={(next) => choices.choose({ by: next })}
            />
          </Group>
        }
      >
        <NodeMap
          nodes={shown}
          by={by}
          chosen={choices.node}
          onChoose={(node) => choices.choose({ node: node === choices.node ? null : node })}
        />
        {shown.length === 0 && (
          <Text size="sm" c="dimmed">
            {nodes.length === 0 ? "The cluster has no nodes." : "No matching nodes."}
          </Text>
        )}
        <Legend />
      </Card>
    </Columns>
  );
}

/** Scrolls the panel into view after a new selection. On a phone, the panel is below the map. */
function useScrollIntoView(chosen: string | null) {
  const panel = useRef<HTMLDivElement>(null);
  const before = useRef(chosen);
  useEffect(() => {
    const isNew = chosen !== null && chosen !== before.current;
    before.current = chosen;
    const top = panel.current?.getBoundingClientRect().top ?? 0;
    if (isNew && (top < 0 || top > window.innerHeight - MIN_VISIBLE_PX)) panel.current?.scrollIntoView();
  }, [chosen]);
  return panel;
}

/** GPUs if there are any, because they are the scarcest resource. */
function defaultView(nodes: ClusterNode[]): By {
  return measure(nodes, "gpu").total > 0 ? "gpu" : "memory";
}
