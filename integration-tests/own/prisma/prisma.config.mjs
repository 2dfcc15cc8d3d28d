// Where the schema is; the checks connect by the adapter.
export default { schema: "schema.prisma" };
