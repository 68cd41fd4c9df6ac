import { Anchor, Text } from "@mantine/core";
import { Link } from "wouter";
import { functionAddress } from "../../shell/addresses";

/** There is one of that name, which nobody asked to replace. */
export function Taken({ project, name }: { project: string; name: string }) {
  return (
    <Text size="sm" role="alert" c="var(--mantine-color-error)">
      There is already a function {name} in {project}. Choose another name, or{" "}
      <Anchor component={Link} href={functionAddress(project, name)} fz="inherit" underline="always">
        open it
      </Anchor>
      .
    </Text>
  );
}
