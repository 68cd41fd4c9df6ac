import { Radio, SegmentedControl, Stack } from "@mantine/core";
import { useState } from "react";
import type { Scope } from "../../api/scopes";
import { FormDialog } from "../../forms/FormDialog";
import { useFinding } from "../../forms/findings";
import { TextField } from "../../forms/TextField";
import { withNotice } from "../../shell/notices";
import { titleOf } from "./kinds";
import { useAddRole } from "./requests";
import { ROLES, type RoleName } from "./roles";

interface Draft {
  kind: string;
  name: string;
  role: RoleName;
}

export function AddRoleDialog({ record, onClose }: { record: Scope; onClose: () => void }) {
  const [draft, setDraft] = useState<Draft>({ kind: "user", name: "", role: "viewer" });
  const adding = useAddRole();
  const subject = `${draft.kind}:${draft.name.trim()}`;
  return (
    <FormDialog
      title={`Add role in ${titleOf(record)}`}
      submitLabel="Add role"
      fields={["subject", "role"]}
      change={adding}
      onClose={onClose}
      onSubmit={() =>
        adding.mutate(
          { subject, role: draft.role, scope: record.scope },
          withNotice(`Added role ${draft.role} for ${subject} in ${record.scope}`, onClose),
        )
      }
    >
      <Fields draft={draft} onChange={setDraft} />
    </FormDialog>
  );
}

function Fields({ draft, onChange }: { draft: Draft; onChange: (draft: Draft) => void }) {
  const finding = useFinding();
  const isGroup = draft.kind === "group";
  return (
    <>
      <SegmentedControl
        aria-label="Assign to"
        data={[
          { value: "user", label: "User" },
          { value: "group", label: "Group" },
        ]}
        value={draft.kind}
        onChange={(kind) => onChange({ ...draft, kind })}
      />
      <TextField
        label={isGroup ? "Group name" : "User name"}
        description={isGroup ? "Name in the identity provider" : "Sign-in name, e.g. ada@example.org"}
        required
        data-autofocus
        value={draft.name}
        onChange={(name) => onChange({ ...draft, name })}
        path="subject"
      />
      <Radio.Group
        label="Role"
        description="Applies here and everywhere below"
        value={draft.role}
        onChange={(role) => onChange({ ...draft, role: role as RoleName })}
        error={finding("role")}
      >
        <Stack gap="xs" mt="xs">
          {ROLES.map(({ role, title, description }) => (
            <Radio key={role} value={role} label={title} description={description} />
          ))}
        </Stack>
      </Radio.Group>
    </>
  );
}
