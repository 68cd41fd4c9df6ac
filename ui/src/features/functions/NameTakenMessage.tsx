import { Anchor, Text } from "@mantine/core";
import { Link } from "wouter";
import { functionAddress } from "../../shell/addresses";

/** Reports that the name is taken. The form for a new function never replaces an existing one. */
export function NameTakenMessage({ project, name }: { project: string; name: string }) {
  return (
    <Text size="sm" role="alert" c="var(--mantine-color-error)">
      A function named {name} already exists in {project}. Choose another name or{" "}
      <Anchor component={Link} href={functionAddress(project, name)} fz="inherit" underline="always">
        open it
      </Anchor>
      .
    </Text>
  );
}
