/** The nodes of a cluster as a map, and beside it the one that is chosen. */
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

/** Fewer are found by looking. */
const MANY = 30;
/** Of a part that shows less than this, nobody sees that it is there. */
const MARGIN = 160;

interface Props {
  nodes: ClusterNode[];
  runs: Record<string, Run>;
  choices: Choices;
}

export function Nodes({ nodes, runs, choices }: Props) {
  const [wanted, setWanted] = useState("");
  const by = choices.by ?? usualView(nodes);
  const shown = useMemo(() => nodes.filter((node) => node.name.includes(wanted.trim())), [nodes, wanted]);
  // Where there is one alone, there is nothing to choose.
  const name = choices.node ?? (nodes.length === 1 ? nodes[0]!.name : null);
  const panel = useShown(choices.node);
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
        about="The share of each that is in use: what runs and other pods have requested."
        actions={
          <Group gap="xs">
            {nodes.length > MANY && (
              <TextInput
                size="xs"
                w={160}
                aria-label="Find a node"
                placeholder="Find a node"
                leftSection={<IconSearch size={14} />}
                value={wanted}
                onChange={(event) => setWanted(event.currentTarget.value)}
              />
            )}
            <SegmentedControl
              size="xs"
              aria-label="In use of"
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
            {nodes.length === 0 ? "The cluster has no nodes now." : "No node has that in its name."}
          </Text>
        )}
        <Legend />
      </Card>
    </Columns>
  );
}

/** Brings a part of the page into sight when something new is chosen for it: on a phone it is below the map. */
function useShown(chosen: string | null) {
  const part = useRef<HTMLDivElement>(null);
  const before = useRef(chosen);
  useEffect(() => {
    const isNew = chosen !== null && chosen !== before.current;
    before.current = chosen;
    const top = part.current?.getBoundingClientRect().top ?? 0;
    if (isNew && (top < 0 || top > window.innerHeight - MARGIN)) part.current?.scrollIntoView();
  }, [chosen]);
  return part;
}

/** GPUs where there are any: they are what is scarce. */
function usualView(nodes: ClusterNode[]): By {
  return measure(nodes, "gpu").has > 0 ? "gpu" : "memory";
}
