/** The capacity page: the clusters' total, free and used resources. */
import { Stack, Text } from "@mantine/core";
import { type Capacity, useCapacity } from "../../api/capacities";
import { Loading } from "../../shell/Loading";
import { Card, Page } from "../../shell/Page";
import { ProblemAlert, ProblemPage } from "../../shell/Problem";
import { ClusterPicker } from "./ClusterPicker";
import { ClusterView } from "./ClusterView";
import { type Choices, useChoices } from "./choices";

export default function CapacityPage() {
  const choices = useChoices();
  const all = useCapacity();
  // If a project is selected, the page shows its cluster and the compute resources available to it.
  const own = useCapacity(choices.project ?? undefined);
  if (all.error && !all.data) {
    return (
      <ProblemPage error={all.error} title="Could not load capacity" onRetry={() => void all.refetch()} />
    );
  }
  if (!all.data) return <Loading />;
  const isOwn = choices.project !== null && !own.error && !own.isPlaceholderData;
  return (
    <Page title="Capacity" about="Total, free and used capacity per cluster. Refreshes every few seconds.">
      {choices.project !== null && <ProblemAlert error={own.error} onRetry={() => void own.refetch()} />}
      {all.data.length === 0 ? (
        <NoCluster />
      ) : (
        <View capacities={all.data} own={isOwn ? own.data?.[0] : undefined} choices={choices} />
      )}
    </Page>
  );
}

interface Props {
  capacities: Capacity[];
  /** The capacity available to the selected project. */
  own: Capacity | undefined;
  choices: Choices;
}

function View({ capacities, own, choices }: Props) {
  const name = own?.cluster ?? choices.cluster ?? defaultCluster(capacities);
  const chosen = capacities.find((one) => one.cluster === name);
  return (
    <Stack gap="md">
      <ClusterPicker capacities={capacities} value={name} choices={choices} />
      {chosen ? (
        <ClusterView
          key={name}
          capacity={chosen}
          offers={(own ?? chosen).compute_resources}
          choices={choices}
        />
      ) : (
        <Card>
          <Text size="sm">Cluster {name} does not exist, or you don't have access to it.</Text>
        </Card>
      )}
    </Stack>
  );
}

/** The first reachable cluster. */
function defaultCluster(capacities: Capacity[]): string {
  return (capacities.find((one) => one.reachable) ?? capacities[0]!).cluster;
}

function NoCluster() {
  return (
    <Card>
      <Stack align="center" gap={6} py="xl" ta="center">
        <Text fw={550}>No clusters available</Text>
        <Text size="sm" c="dimmed" maw={440}>
          Ask an administrator for access.
        </Text>
      </Stack>
    </Card>
  );
}
