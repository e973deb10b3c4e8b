-- Without compatible_from: an older release would write documents without the status of their projects.

-- Every project of an order shows whether it is retired. Only the array of projects is replaced, as text: the rest of a
-- document, such as the client's metadata, keeps its bytes. The key cannot occur earlier: quotes in strings are escaped.
UPDATE orders SET wire_document = convert_to(
    overlay(shown.document PLACING shown.projects
            FROM position('"projects":[' IN shown.document) + length('"projects":') FOR length(shown.old_projects)),
    'UTF8')
FROM (
    SELECT document.account_id, document.id, document.text AS document, document.old_projects,
           (SELECT '[' || string_agg(left(item::text, -1) || ',"status":"' || project.status || '"}', ',' ORDER BY n)
                   || ']'
            FROM json_array_elements(document.old_projects::json) WITH ORDINALITY AS each (item, n)
            JOIN (SELECT position,
                         CASE WHEN EXISTS (SELECT FROM shares share
                                           JOIN parcels parcel
                                             ON parcel.mode = share.mode AND parcel.id = share.parcel_id
                                           WHERE share.account_id = held.account_id AND share.order_id = held.order_id
                                             AND share.line_position = held.line_position
                                             AND parcel.project_id = held.project_id AND parcel.status <> 'retired')
                              THEN 'allocated' ELSE 'retired' END AS status
                  FROM order_projects held
                  WHERE held.account_id = document.account_id AND held.order_id = document.id) project
              ON project.position = each.n) AS projects
    FROM (SELECT account_id, id, convert_from(wire_document, 'UTF8') AS text,
                 (convert_from(wire_document, 'UTF8')::json -> 'projects')::text AS old_projects
          FROM orders WHERE status IN ('retiring', 'complete')) document
) shown
WHERE orders.account_id = shown.account_id AND orders.id = shown.id AND shown.projects IS NOT NULL;
