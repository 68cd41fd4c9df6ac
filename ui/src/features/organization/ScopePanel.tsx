/** The details of a scope: actions, configuration, quotas and roles. */
import { Anchor, Badge, Button, Group, Menu, Stack, Text, Title } from "@mantine/core";
import {
  IconArrowMoveRight,
  IconChevronDown,
  IconCursorText,
  IconPlus,
  IconSettings,
  IconStar,
} from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "wouter";
import { useMay } from "../../api/currentUser";
import type { Scope } from "../../api/scopes";
import { useSettings } from "../../api/settings";
import { Time } from "../../format/Time";
import { ActionButton, DangerButton } from "../../shell/actions";
import { policyAddress, secretsAddress } from "../../shell/addresses";
import { Card } from "../../shell/Page";
import { ClusterFacts } from "./ClusterFacts";
import { EditClusterDialog } from "./ClusterForm";
import { type Kind, kindsBelow, titleOf } from "./kinds";
import { NewScopeDialog } from "./NewScopeDialog";
import classes from "./Organization.module.css";
import { Quotas } from "./Quotas";
import { Roles } from "./Roles";
import { DeleteDialog, MakeDefaultDialog, MoveDialog, RenameDialog } from "./ScopeDialogs";

interface Props {
  record: Scope;
  scopes: Scope[];
  onChoose: (scope: string) => void;
}

type Action = Kind | "default" | "rename" | "move" | "edit" | "delete";

export function ScopePanel({ record, scopes, onChoose }: Props) {
  const [action, setAction] = useState<Action | null>(null);
  const close = () => setAction(null);
  const dialog = { record, scopes, onClose: close };
  const show = (after?: Scope) => {
    close();
    onChoose(after?.scope ?? record.parent ?? "platform");
  };
  const newKind = kindsBelow(record.kind).find((below) => below.kind === action);
  return (
    <Stack gap="md" component="section" aria-label={titleOf(record)}>
      <Card>
        <Head record={record} onChoose={onChoose} onAsk={setAction} />
      </Card>
      {record.kind === "cluster" && <ClusterFacts record={record} />}
      <Quotas record={record} onChoose={onChoose} />
      <Roles record={record} scopes={scopes} onChoose={onChoose} />
      {newKind && (
        <NewScopeDialog kind={newKind} parent={record} scopes={scopes} onClose={close} onDone={show} />
      )}
      {action === "rename" && <RenameDialog {...dialog} onDone={show} />}
      {action === "move" && <MoveDialog {...dialog} onDone={show} />}
      {action === "edit" && <EditClusterDialog {...dialog} onDone={show} />}
      {action === "default" && <MakeDefaultDialog record={record} onClose={close} />}
      {action === "delete" && <DeleteDialog {...dialog} onDone={show} />}
    </Stack>
  );
}

interface HeadProps {
  record: Scope;
  onChoose: (scope: string) => void;
  onAsk: (action: Action) => void;
}

function Head({ record, onChoose, onAsk }: HeadProps) {
  const isDefault = useSettings(true).data?.default_cluster === record.scope;
  return (
    <Stack gap="sm">
      <Group justify="space-between" align="flex-start" gap="sm">
        <Stack gap={4} flex={1} miw={240}>
          <Group gap="xs">
            <Title order={2} fz="1.2rem" className={classes.name}>
              {titleOf(record)}
            </Title>
            {record.kind !== "platform" && <Badge color="gray">{record.kind}</Badge>}
            {isDefault && <Badge title="New departments and projects are created here.">default</Badge>}
            {record.managed_by && <Badge color="gray">managed by {record.managed_by}</Badge>}
          </Group>
          <Text size="sm" c="dimmed" component="div">
            {record.parent ? (
              <>
                In{" "}
                <Anchor component="button" type="button" fz="sm" onClick={() => onChoose(record.parent!)}>
                  {record.parent}
                </Anchor>
                {" · "}
              </>
            ) : (
              "Top level · "
            )}
            created by {record.created_by} <Time at={record.created_at} />
            {record.revision > 1 && (
              <>
                {" · "}updated by {record.updated_by} <Time at={record.updated_at} />
              </>
            )}
          </Text>
        </Stack>
        <Actions record={record} isDefault={isDefault} onAsk={onAsk} />
      </Group>
      <Links record={record} />
    </Stack>
  );
}

interface ActionsProps {
  record: Scope;
  isDefault: boolean;
  onAsk: (action: Action) => void;
}

function Actions({ record, isDefault, onAsk }: ActionsProps) {
  const may = useMay();
  if (!may("admin", record.scope)) return null;
  const mayMove = record.parent && record.kind !== "cluster" && may("admin", record.parent);
  return (
    <Group gap="xs" role="toolbar" aria-label={`Actions for ${titleOf(record)}`}>
      <NewButton record={record} onAsk={onAsk} />
      {record.kind === "cluster" && (
        <ActionButton icon={IconSettings} onClick={() => onAsk("edit")}>
          Edit
        </ActionButton>
      )}
      {record.kind === "cluster" && !isDefault && may("admin", "platform") && (
        <ActionButton icon={IconStar} onClick={() => onAsk("default")}>
          Make default
        </ActionButton>
      )}
      {record.kind !== "platform" && (
        <ActionButton icon={IconCursorText} onClick={() => onAsk("rename")}>
          Rename
        </ActionButton>
      )}
      {mayMove && (
        <ActionButton icon={IconArrowMoveRight} onClick={() => onAsk("move")}>
          Move
        </ActionButton>
      )}
      {record.kind !== "platform" && <DangerButton onClick={() => onAsk("delete")}>Delete</DangerButton>}
    </Group>
  );
}

/** A button if only one kind of scope is allowed as a child, otherwise a menu. */
function NewButton({ record, onAsk }: { record: Scope; onAsk: (action: Kind) => void }) {
  const [first, ...others] = kindsBelow(record.kind);
  if (!first) return null;
  const icon = <IconPlus size={15} />;
  if (others.length === 0) {
    return (
      <Button size="xs" leftSection={icon} onClick={() => onAsk(first.kind)}>
        New {first.kind}
      </Button>
    );
  }
  return (
    <Menu position="bottom-end" width={280} withInitialFocusPlaceholder={false}>
      <Menu.Target>
        <Button size="xs" leftSection={icon} rightSection={<IconChevronDown size={14} />}>
          Add
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {[first, ...others].map((below) => (
          <Menu.Item key={below.kind} onClick={() => onAsk(below.kind)}>
            <Text size="sm">{below.title}</Text>
            <Text size="xs" c="dimmed">
              {below.about}
            </Text>
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

/** Links to other pages about the scope. */
function Links({ record }: { record: Scope }) {
  const may = useMay();
  const filter = `?scope=${encodeURIComponent(record.scope)}`;
  const links = [
    { title: "Compute resources", href: `/compute-resources${filter}` },
    { title: "Templates", href: `/templates${filter}` },
    { title: "Policy", href: policyAddress(record.scope) },
    ...(record.kind === "project" ? [{ title: "Secrets", href: secretsAddress(record.name) }] : []),
    ...(may("admin", record.scope) ? [{ title: "Audit log", href: `/audit${filter}` }] : []),
  ];
  return (
    <Group gap="md" component="nav" className={classes.links} aria-label={`More about ${titleOf(record)}`}>
      {links.map((link) => (
        <Anchor key={link.href} component={Link} href={link.href} fz="sm">
          {link.title}
        </Anchor>
      ))}
    </Group>
  );
}
