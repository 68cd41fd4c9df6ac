import { Badge } from "@mantine/core";
import { showState } from "../format/runs";

/** The state of a run. With the role "status", screen readers announce changes. */
export function StateBadge({ state, role }: { state: string; role?: "status" }) {
  const { label, color } = showState(state);
  return (
    <Badge color={color} role={role}>
      {label}
    </Badge>
  );
}
