/** Asks for the scope of a new policy. If the scope already has one, opens it. */
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

/** Kinds of scopes, from the top of the tree down. */
const KINDS = ["platform", "cluster", "department", "project"];

export function NewPolicyDialog({ onClose }: { onClose: () => void }) {
  const [, go] = useLocation();
  const scopes = useScopes();
  const policies = useAll("/api/v1/policies");
  const may = useMay();
  const [selected, setSelected] = useState<string | null>(null);
  const editable = (scopes.data ?? []).filter((record) => may("editor", record.scope));
  const highest = editable.sort((left, right) => KINDS.indexOf(left.kind) - KINDS.indexOf(right.kind))[0]
    ?.scope;
  const scope = selected ?? highest ?? "platform";
  const exists = policies.data?.some((policy) => policy.scope === scope) ?? false;
  return (
    <Dialog onClose={onClose} title="New policy">
      <Stack>
        <ProblemAlert error={scopes.error ?? policies.error} />
        <ScopePicker scopes={scopes.data ?? []} value={scope} onChange={setSelected} />
        <Text size="sm" c="dimmed" role="status">
          {exists ? `${scope} already has a policy.` : `${scope} has no policy yet.`}
        </Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button disabled={!may("editor", scope)} onClick={() => go(policyAddress(scope))}>
            {exists ? "Open policy" : "Continue"}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
