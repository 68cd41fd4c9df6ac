/** One cluster: in all, node by node, what fits there now, and who holds what. */
import { Alert, Group, Text } from "@mantine/core";
import { IconPlugConnectedX } from "@tabler/icons-react";
import { type Capacity, type Offer, useNodes } from "../../api/capacities";
import { sentence } from "../../format/sentences";
import { Loading } from "../../shell/Loading";
import { Card } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import { ClusterBadges, tellNodes } from "./ClusterPicker";
import type { Choices } from "./choices";
import { Holders } from "./Holders";
import { Nodes } from "./Nodes";
import { Offers } from "./Offers";
import { useHolders } from "./requests";
import { Totals } from "./Totals";

interface Props {
  capacity: Capacity;
  /** What fits now, of all that one sees or of what a project can choose. */
  offers: Offer[];
  choices: Choices;
}

export function ClusterView({ capacity, offers, choices }: Props) {
  const nodes = useNodes(capacity.reachable ? capacity.cluster : null);
  const holders = useHolders();
  return (
    <>
      <Card
        title={`Cluster ${capacity.cluster}`}
        actions={
          <Group gap="xs">
            <ClusterBadges capacity={capacity} />
            {capacity.total && (
              <Text size="sm" c="dimmed" className="number">
                {tellNodes(capacity.total)}
              </Text>
            )}
          </Group>
        }
      >
        {capacity.total && <Totals total={capacity.total} onChoose={(node) => choices.choose({ node })} />}
        {!capacity.reachable && (
          <Alert color="red" icon={<IconPlugConnectedX size={18} />} title="Its nodes cannot be seen now">
            {sentence(capacity.error)}
          </Alert>
        )}
        {capacity.autoscaled && (
          <Text size="sm" c="dimmed">
            It gets more nodes when they are needed: what does not fit now may fit later.
          </Text>
        )}
      </Card>
      <ProblemAlert
        error={nodes.error}
        title="The nodes cannot be shown"
        onRetry={() => void nodes.refetch()}
      />
      {capacity.reachable && !nodes.data && !nodes.error && <Loading />}
      {nodes.data && <Nodes nodes={nodes.data} runs={holders.data ?? {}} choices={choices} />}
      <Offers offers={offers} choices={choices} />
      {nodes.data && <Holders nodes={nodes.data} holders={holders} choices={choices} />}
    </>
  );
}
