/** Selects a cluster, then a scope in that cluster. */
import { Input, Paper, Select, Stack } from "@mantine/core";
import { useMay } from "../api/currentUser";
import { clusterOf, type Scope } from "../api/scopes";
import { SearchableTree } from "./SearchableTree";

const ALL = "platform";

interface Props {
  scopes: Scope[];
  value: string;
  onChange: (scope: string) => void;
  error?: string;
}

export function ScopePicker({ scopes, value, onChange, error }: Props) {
  const may = useMay();
  const clusters = scopes.filter((record) => record.kind === "cluster");
  const cluster = clusterOf(scopes, value) ?? ALL;
  const within = scopes.filter((record) =>
    cluster === ALL ? record.scope === ALL : clusterOf(scopes, record.scope) === cluster,
  );
  return (
    <Stack gap="sm">
      <Select
        label="Cluster"
        description="Select a cluster to see its scopes"
        data={[
          { value: ALL, label: "All clusters" },
          ...clusters.map((one) => ({ value: one.scope, label: one.name })),
        ]}
        value={cluster}
        onChange={(next) => onChange(next ?? ALL)}
      />
      <Input.Wrapper
        label="Scope"
        labelElement="div"
        description="Applies to this scope and everything below it"
        error={error}
      >
        <Paper withBorder mt={6} p={6}>
          <SearchableTree
            key={cluster}
            label="Scope"
            scopes={within}
            marked={value}
            onChoose={onChange}
            mayChoose={(record) => may("editor", record.scope)}
          />
        </Paper>
      </Input.Wrapper>
    </Stack>
  );
}
