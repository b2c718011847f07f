"""Attributes that AWS answers as given and moto forgets or mixes up: Terraform would plan again.

ECS   availabilityZoneRebalancing, capacity providers and placement of a service
EC2   Description of a security group's rule whose source is another group; tags of a launch
      template itself, which moto takes for tags of what is launched by it
"""

from typing import Any

import pytest

AWS_DEFAULT = "ENABLED"
"""Of a new ECS service whose request does not say it."""

LISTS = {
    "capacityProviderStrategy": "capacity_provider_strategy",
    "placementConstraints": "placement_constraints",
    "placementStrategy": "placement_strategy",
}
"""Of a service: parameter of its creation, attribute in moto."""


def keep_attributes(patch: pytest.MonkeyPatch) -> None:
    """Have moto in this process keep them, while `patch` holds."""
    from moto.ec2.models.launch_templates import LaunchTemplateBackend
    from moto.ec2.models.security_groups import SecurityGroupRule
    from moto.ecs.responses import EC2ContainerServiceResponse

    created = EC2ContainerServiceResponse.create_service
    created_template = LaunchTemplateBackend.create_launch_template

    def create_service(request: Any) -> Any:
        answer: Any = created(request)
        service = answer.result["service"]
        given = request._get_param("availabilityZoneRebalancing")
        service.availability_zone_rebalancing = given or AWS_DEFAULT
        for parameter, attribute in LISTS.items():
            setattr(service, attribute, request._get_param(parameter) or [])
        return answer

    def create_launch_template(backend: Any, name: str, text: str, data: Any, tags: Any) -> Any:
        specified = data.pop("TagSpecifications", [])
        launched = [one for one in specified if one["ResourceType"] != "launch-template"]
        more = {"TagSpecifications": launched} if launched else {}
        return created_template(backend, name, text, {**data, **more}, tags)

    def description(rule: Any) -> Any:
        return rule.ip_range.get("Description") or (rule.source_group or {}).get("Description")

    patch.setattr(EC2ContainerServiceResponse, "create_service", create_service)
    patch.setattr(LaunchTemplateBackend, "create_launch_template", create_launch_template)
    patch.setattr(SecurityGroupRule, "description", property(description))
