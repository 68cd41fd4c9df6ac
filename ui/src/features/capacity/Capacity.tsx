/** What clusters have, what is free of it, and who holds the rest. */
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
  // With a project, its cluster is looked at, and the compute resources that it can choose.
  const own = useCapacity(choices.project ?? undefined);
  if (all.error && !all.data) {
    return (
      <ProblemPage
        error={all.error}
        title="What is free cannot be shown"
        onRetry={() => void all.refetch()}
      />
    );
  }
  if (!all.data) return <Loading />;
  const isOwn = choices.project !== null && !own.error && !own.isPlaceholderData;
  return (
    <Page
      title="Capacity"
      about="What each cluster has, what is free of it, and who holds the rest. It is read anew every few seconds."
    >
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
  /** That of the project, where one is chosen. */
  own: Capacity | undefined;
  choices: Choices;
}

function View({ capacities, own, choices }: Props) {
  const name = own?.cluster ?? choices.cluster ?? startOf(capacities);
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
          <Text size="sm">There is no cluster {name}, or you do not see it.</Text>
        </Card>
      )}
    </Stack>
  );
}

/** The first one that can be looked at. */
function startOf(capacities: Capacity[]): string {
  return (capacities.find((one) => one.reachable) ?? capacities[0]!).cluster;
}

function NoCluster() {
  return (
    <Card>
      <Stack align="center" gap={6} py="xl" ta="center">
        <Text fw={550}>No cluster is connected</Text>
        <Text size="sm" c="dimmed" maw={440}>
          Or you see none: an administrator adds clusters in the organization, and gives roles at them.
        </Text>
      </Stack>
    </Card>
  );
}
