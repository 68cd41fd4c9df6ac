/** One place: what it is, what can be done with it, its quotas and its roles. */
import { Anchor, Badge, Button, Group, Menu, Stack, Text, Title } from "@mantine/core";
import {
  IconArrowMoveRight,
  IconChevronDown,
  IconCursorText,
  IconPlus,
  IconSettings,
} from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "wouter";
import { useMay } from "../../api/people";
import type { Place } from "../../api/places";
import { Time } from "../../format/Time";
import { ActionButton, DangerButton } from "../../shell/actions";
import { policyAddress, secretsAddress } from "../../shell/addresses";
import { Card } from "../../shell/Page";
import { ClusterFacts } from "./ClusterFacts";
import { EditClusterDialog } from "./ClusterForm";
import { type Kind, kindsBelow, titleOf } from "./kinds";
import { NewPlaceDialog } from "./NewPlaceDialog";
import classes from "./Organization.module.css";
import { DeleteDialog, MoveDialog, RenameDialog } from "./PlaceDialogs";
import { Quotas } from "./Quotas";
import { Roles } from "./Roles";

interface Props {
  place: Place;
  places: Place[];
  onChoose: (scope: string) => void;
}

type Deed = Kind | "rename" | "move" | "edit" | "delete";

export function PlacePanel({ place, places, onChoose }: Props) {
  const [deed, setDeed] = useState<Deed | null>(null);
  const close = () => setDeed(null);
  const dialog = { place, places, onClose: close };
  const show = (after?: Place) => {
    close();
    onChoose(after?.scope ?? place.parent ?? "platform");
  };
  const newKind = kindsBelow(place.kind).find((below) => below.kind === deed);
  return (
    <Stack gap="md" component="section" aria-label={titleOf(place)}>
      <Card>
        <Head place={place} onChoose={onChoose} onAsk={setDeed} />
      </Card>
      {place.kind === "cluster" && <ClusterFacts place={place} />}
      <Quotas place={place} onChoose={onChoose} />
      <Roles place={place} places={places} onChoose={onChoose} />
      {newKind && <NewPlaceDialog kind={newKind} parent={place} onClose={close} onDone={show} />}
      {deed === "rename" && <RenameDialog {...dialog} onDone={show} />}
      {deed === "move" && <MoveDialog {...dialog} onDone={show} />}
      {deed === "edit" && <EditClusterDialog {...dialog} onDone={show} />}
      {deed === "delete" && <DeleteDialog {...dialog} onDone={show} />}
    </Stack>
  );
}

interface HeadProps {
  place: Place;
  onChoose: (scope: string) => void;
  onAsk: (deed: Deed) => void;
}

function Head({ place, onChoose, onAsk }: HeadProps) {
  return (
    <Stack gap="sm">
      <Group justify="space-between" align="flex-start" gap="sm">
        <Stack gap={4} flex={1} miw={240}>
          <Group gap="xs">
            <Title order={2} fz="1.2rem" className={classes.name}>
              {titleOf(place)}
            </Title>
            {place.kind !== "platform" && <Badge color="gray">{place.kind}</Badge>}
            {place.managed_by && <Badge color="gray">managed by {place.managed_by}</Badge>}
          </Group>
          <Text size="sm" c="dimmed" component="div">
            {place.parent ? (
              <>
                below{" "}
                <Anchor component="button" type="button" fz="sm" onClick={() => onChoose(place.parent!)}>
                  {place.parent}
                </Anchor>
                {" · "}
              </>
            ) : (
              "everything stands below it · "
            )}
            made by {place.created_by} <Time at={place.created_at} />
            {place.revision > 1 && (
              <>
                {" · "}changed by {place.updated_by} <Time at={place.updated_at} />
              </>
            )}
          </Text>
        </Stack>
        <Actions place={place} onAsk={onAsk} />
      </Group>
      <Links place={place} />
    </Stack>
  );
}

function Actions({ place, onAsk }: { place: Place; onAsk: (deed: Deed) => void }) {
  const may = useMay();
  if (!may("admin", place.scope)) return null;
  const mayMove = place.parent && place.kind !== "cluster" && may("admin", place.parent);
  return (
    <Group gap="xs" role="toolbar" aria-label={`Actions for ${titleOf(place)}`}>
      <NewButton place={place} onAsk={onAsk} />
      {place.kind === "cluster" && (
        <ActionButton icon={IconSettings} onClick={() => onAsk("edit")}>
          Edit
        </ActionButton>
      )}
      {place.kind !== "platform" && (
        <ActionButton icon={IconCursorText} onClick={() => onAsk("rename")}>
          Rename
        </ActionButton>
      )}
      {mayMove && (
        <ActionButton icon={IconArrowMoveRight} onClick={() => onAsk("move")}>
          Move
        </ActionButton>
      )}
      {place.kind !== "platform" && <DangerButton onClick={() => onAsk("delete")}>Delete</DangerButton>}
    </Group>
  );
}

/** A button where one kind may stand below the place, a menu where several may. */
function NewButton({ place, onAsk }: { place: Place; onAsk: (deed: Kind) => void }) {
  const [first, ...others] = kindsBelow(place.kind);
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
          New below it
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

/** What else there is about a place, on other pages. */
function Links({ place }: { place: Place }) {
  const may = useMay();
  const here = `?scope=${encodeURIComponent(place.scope)}`;
  const links = [
    { title: "Compute resources", href: `/compute-resources${here}` },
    { title: "Templates", href: `/templates${here}` },
    { title: "Policy", href: policyAddress(place.scope) },
    ...(place.kind === "project" ? [{ title: "Secrets", href: secretsAddress(place.name) }] : []),
    ...(may("admin", place.scope) ? [{ title: "Audit", href: `/audit${here}` }] : []),
  ];
  return (
    <Group gap="md" component="nav" className={classes.links} aria-label={`More about ${titleOf(place)}`}>
      {links.map((link) => (
        <Anchor key={link.href} component={Link} href={link.href} fz="sm">
          {link.title}
        </Anchor>
      ))}
    </Group>
  );
}
