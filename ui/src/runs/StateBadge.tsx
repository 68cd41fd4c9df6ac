import { Badge } from "@mantine/core";
import { showState } from "../format/runs";

/** With the role of a status, its changes are read aloud. */
export function StateBadge({ state, role }: { state: string; role?: "status" }) {
  const { label, color } = showState(state);
  return (
    <Badge color={color} role={role}>
      {label}
    </Badge>
  );
}
