/** One cluster: totals, nodes, compute resources that fit, and allocations. */
import { Alert, Group, Text } from "@mantine/core";
import { IconPlugConnectedX } from "@tabler/icons-react";
import { type Capacity, type Offer, useNodes } from "../../api/capacities";
import { sentence } from "../../format/sentences";
import { Loading } from "../../shell/Loading";
import { Card } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import { Allocations } from "./Allocations";
import { ClusterBadges, describeNodes } from "./ClusterPicker";
import type { Choices } from "./choices";
import { Nodes } from "./Nodes";
import { Offers } from "./Offers";
import { useScheduledRuns } from "./requests";
import { Totals } from "./Totals";

interface Props {
  capacity: Capacity;
  /** The visible compute resources, or those available to the selected project. */
  offers: Offer[];
  choices: Choices;
}

export function ClusterView({ capacity, offers, choices }: Props) {
  const nodes = useNodes(capacity.reachable ? capacity.cluster : null);
  const runs = useScheduledRuns();
  return (
    <>
      <Card
        title={`Cluster ${capacity.cluster}`}
        actions={
          <Group gap="xs">
            <ClusterBadges capacity={capacity} />
            {capacity.total && (
              <Text size="sm" c="dimmed" className="number">
                {describeNodes(capacity.total)}
              </Text>
            )}
          </Group>
        }
      >
        {capacity.total && <Totals total={capacity.total} onChoose={(node) => choices.choose({ node })} />}
        {!capacity.reachable && (
          <Alert color="red" icon={<IconPlugConnectedX size={18} />} title="Nodes are not available">
            {sentence(capacity.error)}
          </Alert>
        )}
        {capacity.autoscaled && (
          <Text size="sm" c="dimmed">
            Nodes are added on demand. Runs that do not fit now may fit later.
          </Text>
        )}
      </Card>
      <ProblemAlert error={nodes.error} title="Could not load nodes" onRetry={() => void nodes.refetch()} />
      {capacity.reachable && !nodes.data && !nodes.error && <Loading />}
      {nodes.data && <Nodes nodes={nodes.data} runs={runs.data ?? {}} choices={choices} />}
      <Offers offers={offers} choices={choices} />
      {nodes.data && <Allocations nodes={nodes.data} runs={runs} choices={choices} />}
    </>
  );
}
