/** How many more runs of each compute resource fit on a cluster now, or why none fit. */
import { Anchor, Select, Table, Text } from "@mantine/core";
import { Link } from "wouter";
import type { Offer } from "../../api/capacities";
import { useScopes } from "../../api/scopes";
import { sentence } from "../../format/sentences";
import { showOffer } from "../../offers/FitsNow";
import { ScopeLink } from "../../scopes/ScopeLink";
import { Card } from "../../shell/Page";
import { NONE } from "../../table/columns";
import type { Choices } from "./choices";

interface Props {
  offers: Offer[];
  choices: Choices;
}

export function Offers({ offers, choices }: Props) {
  const scopes = useScopes();
  const projects = (scopes.data ?? [])
    .filter((record) => record.kind === "project")
    .map((record) => record.name);
  return (
    <Card
      title="Compute resources"
      about="How many more runs could start now with each compute resource."
      actions={
        <Select
          size="xs"
          w={220}
          aria-label="Project"
          placeholder="All projects"
          searchable
          clearable
          data={projects.sort()}
          value={choices.project}
          onChange={(project) =>
            choices.choose({ project, ...(project !== null && { cluster: null, node: null }) })
          }
        />
      }
    >
      {offers.length > 0 ? (
        <OfferTable offers={offers} />
      ) : (
        <Text size="sm" c="dimmed">
          {choices.project
            ? `No compute resources are available in project ${choices.project}.`
            : "No compute resources are available."}
        </Text>
      )}
    </Card>
  );
}

function OfferTable({ offers }: { offers: Offer[] }) {
  return (
    <Table.ScrollContainer minWidth={620} type="native">
      <Table fz="sm">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Compute resource</Table.Th>
            <Table.Th>Fits now</Table.Th>
            <Table.Th>Reason</Table.Th>
            <Table.Th>Scope</Table.Th>
            <Table.Th>Workload types</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {offers.map((offer) => (
            <Table.Tr key={offer.name}>
              <Table.Td>
                <Anchor component={Link} href={`/compute-resources/${offer.name}`} fz="inherit" fw={550}>
                  {offer.name}
                </Anchor>
              </Table.Td>
              <Table.Td className="number" fw={550}>
                {showOffer(offer)}
              </Table.Td>
              <Table.Td maw={420}>{offer.message ? sentence(offer.message) : NONE}</Table.Td>
              <Table.Td>
                <ScopeLink scope={offer.scope} />
              </Table.Td>
              <Table.Td>{offer.workload_types?.map(capitalize).join(", ") ?? "All"}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function capitalize(type: string): string {
  return type.charAt(0).toUpperCase() + type.slice(1);
}
