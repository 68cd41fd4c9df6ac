import { Anchor, Text } from "@mantine/core";
import { Link } from "wouter";
import { functionAddress } from "../../shell/addresses";

/** Says that a function with this name exists. The form for a new function never replaces an existing one. */
export function NameTakenMessage({ project, name }: { project: string; name: string }) {
  return (
    <Text size="sm" role="alert" c="var(--mantine-color-error)">
      A function {name} already exists in {project}. Choose another name or{" "}
      <Anchor component={Link} href={functionAddress(project, name)} fz="inherit" underline="always">
        open it
      </Anchor>
      .
    </Text>
  );
}
