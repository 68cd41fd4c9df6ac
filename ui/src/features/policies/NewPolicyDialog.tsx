/** Asks where a policy is to be said. A place that has one opens that one. */
import { Button, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useMay } from "../../api/currentUser";
import { useAll } from "../../api/lists";
import { useScopes } from "../../api/scopes";
import { ScopePicker } from "../../scopes/ScopePicker";
import { policyAddress } from "../../shell/addresses";
import { Dialog } from "../../shell/Dialog";
import { ProblemAlert } from "../../shell/Problem";

/** From the top down. */
const KINDS = ["platform", "cluster", "department", "project"];

export function NewPolicyDialog({ onClose }: { onClose: () => void }) {
  const [, go] = useLocation();
  const scopes = useScopes();
  const policies = useAll("/api/v1/policies");
  const may = useMay();
  const [chosen, setChosen] = useState<string | null>(null);
  const open = (scopes.data ?? []).filter((record) => may("editor", record.scope));
  const first = open.sort((one, other) => KINDS.indexOf(one.kind) - KINDS.indexOf(other.kind))[0]?.scope;
  const scope = chosen ?? first ?? "platform";
  const isThere = policies.data?.some((policy) => policy.scope === scope) ?? false;
  return (
    <Dialog onClose={onClose} title="New policy">
      <Stack>
        <ProblemAlert error={scopes.error ?? policies.error} />
        <ScopePicker scopes={scopes.data ?? []} value={scope} onChange={setChosen} />
        <Text size="sm" c="dimmed" role="status">
          {isThere ? `${scope} has a policy already.` : `Nothing is said at ${scope} yet.`}
        </Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button disabled={!may("editor", scope)} onClick={() => go(policyAddress(scope))}>
            {isThere ? "Open it" : "Continue"}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
