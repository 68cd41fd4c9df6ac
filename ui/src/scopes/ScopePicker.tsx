/** First the cluster, then a place on it: where something is offered. */
import { Input, Paper, Select, Stack } from "@mantine/core";
import { useMay } from "../api/people";
import { clusterOf, type Place } from "../api/places";
import { PlaceTree } from "./PlaceTree";

const ALL = "platform";

interface Props {
  places: Place[];
  value: string;
  onChange: (scope: string) => void;
  error?: string;
}

export function ScopePicker({ places, value, onChange, error }: Props) {
  const may = useMay();
  const clusters = places.filter((place) => place.kind === "cluster");
  const cluster = clusterOf(places, value) ?? ALL;
  const within = places.filter((place) =>
    cluster === ALL ? place.scope === ALL : clusterOf(places, place.scope) === cluster,
  );
  return (
    <Stack gap="sm">
      <Select
        label="Cluster"
        description="On which cluster it can be used"
        data={[
          { value: ALL, label: "All clusters" },
          ...clusters.map((one) => ({ value: one.scope, label: one.name })),
        ]}
        value={cluster}
        allowDeselect={false}
        onChange={(next) => onChange(next ?? ALL)}
      />
      <Input.Wrapper
        label="Scope"
        labelElement="div"
        description="It reaches this place and everything below it"
        error={error}
      >
        <Paper withBorder mt={6} p={6}>
          <PlaceTree
            key={cluster}
            label="Scope"
            places={within}
            marked={value}
            onChoose={onChange}
            mayChoose={(place) => may("editor", place.scope)}
          />
        </Paper>
      </Input.Wrapper>
    </Stack>
  );
}
