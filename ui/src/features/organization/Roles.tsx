/** The roles of a scope, including inherited ones. */
import { ActionIcon, Anchor, Group, Table, Text, Tooltip, VisuallyHidden } from "@mantine/core";
import { IconPlus, IconTrash, IconUser, IconUsersGroup } from "@tabler/icons-react";
import { useState } from "react";
import { useMay, useMe } from "../../api/currentUser";
import type { Scope } from "../../api/scopes";
import { Time } from "../../format/Time";
import { ActionButton } from "../../shell/actions";
import { ConfirmDialog } from "../../shell/ConfirmDialog";
import { Loading } from "../../shell/Loading";
import { withNotice } from "../../shell/notices";
import { Card } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import { AddRoleDialog } from "./AddRoleDialog";
import { titleOf } from "./kinds";
import classes from "./Organization.module.css";
import { type Grant, useRemoveRole, useRoles } from "./requests";
import { ROLES, splitSubject } from "./roles";

interface Props {
  record: Scope;
  scopes: Scope[];
  onChoose: (scope: string) => void;
}

export function Roles(props: Props) {
  const may = useMay();
  const [isAdding, setAdding] = useState(false);
  const isAdmin = may("admin", props.record.scope);
  return (
    <Card
      title="Roles"
      order={3}
      actions={
        isAdmin && (
          <ActionButton icon={IconPlus} onClick={() => setAdding(true)}>
            Add role
          </ActionButton>
        )
      }
    >
      {isAdmin ? (
        <RoleList {...props} />
      ) : (
        <Text size="sm" c="dimmed">
          Only administrators can see the roles of this scope.
        </Text>
      )}
      {isAdding && <AddRoleDialog record={props.record} onClose={() => setAdding(false)} />}
    </Card>
  );
}

function RoleList({ record, scopes, onChoose }: Props) {
  const roles = useRoles(scopes, record.scope);
  const may = useMay();
  const [removed, setRemoved] = useState<Grant | null>(null);
  if (roles.error) return <ProblemAlert error={roles.error} onRetry={() => void roles.refetch()} />;
  if (!roles.data) return <Loading />;
  return (
    <>
      {roles.data.length > 0 && (
        <RoleTable roles={roles.data} scope={record.scope} onChoose={onChoose} onRemove={setRemoved} />
      )}
      {!roles.data.some((grant) => grant.scope === record.scope) && (
        <Text size="sm" c="dimmed">
          No roles assigned here directly.
        </Text>
      )}
      {record.parent && !may("admin", record.parent) && (
        <Text size="sm" c="dimmed">
          Inherited roles are visible to administrators of the parent scope.
        </Text>
      )}
      {removed && <RemoveDialog grant={removed} record={record} onClose={() => setRemoved(null)} />}
    </>
  );
}

interface TableProps {
  roles: Grant[];
  scope: string;
  onChoose: (scope: string) => void;
  onRemove: (grant: Grant) => void;
}

function RoleTable({ roles, scope, onChoose, onRemove }: TableProps) {
  return (
    <Table.ScrollContainer minWidth={440}>
      <Table fz="sm" aria-label="Roles">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>User or group</Table.Th>
            <Table.Th>Role</Table.Th>
            <Table.Th>Source</Table.Th>
            <Table.Th visibleFrom="lg">Granted</Table.Th>
            <Table.Th w={44}>
              <VisuallyHidden>Remove</VisuallyHidden>
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {roles.map((grant) => (
            <Table.Tr key={grant.id}>
              <Table.Td>
                <Subject subject={grant.subject} />
              </Table.Td>
              <Table.Td>
                <Tooltip label={ROLES.find((one) => one.role === grant.role)?.description}>
                  <span>{ROLES.find((one) => one.role === grant.role)?.title ?? grant.role}</span>
                </Tooltip>
              </Table.Td>
              <Table.Td>
                {grant.scope === scope ? (
                  "here"
                ) : (
                  <Text size="sm" c="dimmed" component="span">
                    inherited from{" "}
                    <Anchor component="button" type="button" fz="sm" onClick={() => onChoose(grant.scope)}>
                      {grant.scope}
                    </Anchor>
                  </Text>
                )}
              </Table.Td>
              <Table.Td c="dimmed" visibleFrom="lg">
                <Time at={grant.created_at} /> by {grant.created_by}
              </Table.Td>
              <Table.Td>
                {grant.scope === scope && (
                  <ActionIcon
                    variant="subtle"
                    color="gray"
                    size="sm"
                    aria-label={`Remove ${grant.role} for ${grant.subject}`}
                    onClick={() => onRemove(grant)}
                  >
                    <IconTrash size={16} stroke={1.6} />
                  </ActionIcon>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Subject({ subject }: { subject: string }) {
  const { kind, name } = splitSubject(subject);
  const Icon = kind === "group" ? IconUsersGroup : IconUser;
  return (
    <Group gap={8} wrap="nowrap" className={classes.subject}>
      <Icon size={16} stroke={1.6} role="img" aria-label={kind} />
      <span>{name}</span>
    </Group>
  );
}

interface RemoveProps {
  grant: Grant;
  record: Scope;
  onClose: () => void;
}

function RemoveDialog({ grant, record, onClose }: RemoveProps) {
  const me = useMe();
  const removing = useRemoveRole();
  return (
    <ConfirmDialog
      title="Remove role?"
      submitLabel="Remove"
      change={removing}
      onClose={onClose}
      onConfirm={() =>
        removing.mutate(
          grant,
          withNotice(`Removed role ${grant.role} for ${grant.subject} in ${grant.scope}`, onClose),
        )
      }
    >
      <b>{grant.subject}</b> will lose the permissions of the {grant.role} role in {titleOf(record)} and
      everything below, unless another role grants them.
      {grant.subject === `user:${me.data?.user}` &&
        " This is your own role. You may lose access to this page."}
    </ConfirmDialog>
  );
}
